"""What Spark users reach for first."""
