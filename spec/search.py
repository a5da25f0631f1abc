"""Visit all states of a specification within small bounds, breadth first, and check each invariant in each of them.

    python spec/search.py commits right --writers 2 --keepers 1 --mishaps 2
    python spec/search.py services right --plans 2 --story "schedule 1 cluster 1" "save"

A state that breaks an invariant is shown with the shortest way to it. README.md has results.
"""

from __future__ import annotations

import argparse
import sys

import commits
import leases
import services
from visit import visit

SPECIFICATIONS = {"commits": commits, "leases": leases, "services": services}


def main() -> int:
    """Search as the command line says."""
    parser = argparse.ArgumentParser(prog="spec/search.py", description=__doc__)
    parser.add_argument("specification", choices=SPECIFICATIONS)
    parser.add_argument("module", help="a module of the specification, such as right")
    parser.add_argument("--writers", type=int, default=2)
    parser.add_argument("--keepers", type=int, default=1)
    parser.add_argument("--mishaps", type=int, default=1)
    parser.add_argument("--plans", type=int, default=1, help="of compactions and clusterings (services)")
    parser.add_argument("--cleans", type=int, default=1, help="(services)")
    parser.add_argument("--groups", type=int, default=1, help="file groups (services)")
    parser.add_argument("--story", nargs="*", default=(), help="the steps to begin with (services)")
    given = parser.parse_args()
    spec = SPECIFICATIONS[given.specification]
    own = {"plans": given.plans, "cleans": given.cleans, "groups": given.groups, "story": given.story}
    more = own if spec is services else {}
    processes = (given.keepers,) if spec is leases else (given.writers, given.keepers)
    first = spec.first_tables(spec.MODULES[given.module], *processes, given.mishaps, **more)
    found = visit(first, spec.steps, spec.broken_invariant)
    print(found)
    return 0 if found.broken is None else 1


if __name__ == "__main__":
    sys.exit(main())
