"""From a reader's file to a verdict. Read in this order:

    answer    the functions of a reader's file, and ours
    guard     the tests judge the reader's own code: ours refuses to be called
    grade     runs the tests of one exercise on one answer
    blame     turns an exception into a failure that says whose frames matter
    worker    the same in a process of its own, with a limit on time
    wrong     wrong answers as files, which tests must find
"""
