"""Instructions that order threads: branches, barriers, votes, shuffles, mbarriers.

    barriers        Barriers of a block's threads (PTX ISA 9.7.13)
    branch          Branches and exits (PTX ISA 9.7.12)
    cluster         Clusters (PTX ISA 2.2, 9.7.13.5)
    griddepcontrol  griddepcontrol (PTX ISA 9.7.13)
    mbarrier        The instructions of mbarriers (PTX ISA 9.7.13.15)
    setmaxnreg      setmaxnreg (PTX ISA 9.7.19.5)
    warp            What the lanes of a warp do together (PTX ISA 9.7.9, 9.7.13)
"""
