"""`headstream inspect`: explains any bytes, field by field, and where and why they are invalid."""
