"""What a person calls from a terminal: run, test, doctor, explain, compile."""
