"""What the tests and the self-test share; nothing else imports it."""
