"""What is done again and again, or by the hundred, before it is believed (`make prove`)."""
