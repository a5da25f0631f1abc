"""What the tests of several suites share: the dict model, real Hudi, golden tables, rows in one plain form."""
