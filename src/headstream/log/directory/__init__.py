"""The directory of a log: its marker, its writer's lock, and notification of appends."""
