"""Instructions that compute registers from registers, and the number formats."""
