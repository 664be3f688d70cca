"""How fast is it, beside what, and on which machine? `make bench` answers in numbers.

Every row can be measured alone (`python -m bench NAME...`); none of it is part of the program.
"""
