"""Read statements from text; begin with `statement`."""
