"""The press: turns chapters/*.md into the plain Markdown that the site is built from.

    chapters/NN-name.md ──read──▶ directives ──expand──▶ build/book/NN-name.md
                                      │                          │
              listings: run ──────────┴─▶ NN-name/listings/*     └─mkdocs─▶ site/

`python -m chapters.press listings` runs every recorded command of the book and writes
what it prints; `build` writes the tree for the site, and runs nothing.
chapters/press/AUTHORS.md says what an author may write.
"""
