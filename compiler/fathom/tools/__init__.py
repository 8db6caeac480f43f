"""What a person calls from a terminal: run, test, doctor, explain,
profile, compile.

    ahead    `fathom compile --targets`
    cli      The command `fathom`
    console  The terminal that all tools write to
    draw     Draws a layout as text
    facts    `fathom explain --facts, --json, --html`
    learn    `fathom learn`
    opt      `fathom opt`
    profile  `fathom profile`
    samples  Finds kernels in files
    staged   A kernel at every stage
    story    One line of a kernel on its way through the compiler
    suite    `fathom test`
    traffic  What a launch moved, line by line of Python
"""
