"""Dead letters of a topic: reading, counting by reason, redriving, discarding and erasing."""
