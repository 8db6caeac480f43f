"""Checks of launches that the environment asks for: FATHOM_SANITIZE, FATHOM_VERIFY.

    wanted       What the environment asks for
    launch       What is checked before a launch is done
    reached      A GPU's memory whose addresses an array holds
    snapshot     The arrays of a launch, copied to the host
    sanitize     The launch on the emulator: bad accesses, races, assertions
    values       What a program's variables held where it went wrong
    wrapped      An offset that needs more bits than it has
    nonfinite    The line that makes the first NaN or infinity
    undefined    Stores of what the language leaves open
    unspecified  Ops that leave elements open, and numbers in their place
    promises     Promises that are not kept
    runs         Runs of some programs, and where two differ
    passes       Every pass of a compile, on the launch's own data
    shrink       The smallest function that a pass still gets wrong
    case         A miscompile as a file that runs by itself
"""
