"""`headstream inspect`: explains any bytes field by field, and shows where and why they are invalid."""
