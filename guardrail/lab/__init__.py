"""A fleet of real parts on one machine, loopback only, with the incident of 2022-02-22 in it."""
