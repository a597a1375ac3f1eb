"""What compare.py is made of: running rows, describing the machine, reporting."""
