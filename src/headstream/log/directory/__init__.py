"""The directory of a log: marker, writer's lock, and notification of appends."""
