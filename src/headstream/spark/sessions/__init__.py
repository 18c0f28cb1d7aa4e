"""Configured Spark sessions: settings, jars, Java, SPARK_HOME, class archives."""
