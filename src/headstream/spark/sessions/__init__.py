"""Configured SparkSessions: settings, jars, Java, Spark's home, class archives."""
