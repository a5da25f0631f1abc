"""Who does the work: threads on one machine, or Spark."""
