"""The format's list of planned actions is that of the table services."""

from __future__ import annotations

from pudi.format import Action
from pudi.services.registry import planned_services


def test_the_services_plan_what_the_format_calls_planned() -> None:
    assert {service.action for service in planned_services()} == {each for each in Action if each.is_planned}
