"""What every test may count on."""

import signal

# A shell starts background jobs with SIGINT ignored, and so would everything that is started here:
# whatever ran these tests, Ctrl-C must work in what they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
