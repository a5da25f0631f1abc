"""Run statements by the verbs of a table: a function for each kind of statement, which `statement.run` calls."""
