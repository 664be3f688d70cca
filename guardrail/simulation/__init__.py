"""Do the rules of design.md §4 hold in every world that one number can make up?

story    what will happen to one or more operations, from a seed; shrunken and in words
world    hosts, workers, servers, gates and people that do it, on a clock that is a number
record   what has happened, told from the events alone
rules    the rules, each looking at every moment
faults   planted faults of the engine, to show that each rule can fail
campaign many seeds, on every core
"""
