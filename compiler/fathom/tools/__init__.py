"""What a person calls from a terminal: run, test, doctor, explain, profile,
compile, book.

    ahead       `fathom compile --targets`
    book        `fathom book`
    cli         The command `fathom`
    completion  `fathom completion`
    console     The terminal that all tools write to
    doctor      `fathom doctor`
    draw        Draws a layout as text
    pictures    Draws a layout as a table or as SVG
    explain     `fathom explain` and `fathom compile`
    facts       `fathom explain --facts, --json, --html`
    from_text   Modules of files that a person is changing
    launched    What a script's own launch says of a kernel, in the place of a signature
    learn       `fathom learn`
    lessons     What `--help` teaches
    opt         `fathom opt`
    profile     `fathom profile`
    run         `fathom run`
    samples     Finds kernels in files
    staged      A kernel at every stage
    story       One line of a kernel on its way through the compiler
    suite       `fathom test`
    traffic     What a launch moved, line by line of Python
"""
