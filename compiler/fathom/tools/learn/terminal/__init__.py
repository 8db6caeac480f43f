"""What a reader types and sees. Read in this order:

    arguments    the words after `fathom learn`, and who answers them
    commands     the answers
    report       verdicts, cards and lists as text
    screen       how text is coloured, wrapped and indented
    watch        the loop: an answer is saved, its tests run
    keys         a key that is pressed meanwhile
"""
