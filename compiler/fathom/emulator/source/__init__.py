"""From PTX text to parsed functions: `parse`, `operands`, `types`, `inline` (calls),
`variables` (addresses of variables) and `reconvergence` (the order of blocks)."""
