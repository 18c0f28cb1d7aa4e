"""Reading: the data source, its options, plans and tasks."""
