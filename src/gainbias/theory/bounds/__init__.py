"""What the theorems guarantee, in numbers: every bound with its constants and conditions."""
