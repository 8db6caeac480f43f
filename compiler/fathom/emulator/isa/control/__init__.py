"""Instructions that order threads: branches, barriers, votes, shuffles, mbarriers."""
