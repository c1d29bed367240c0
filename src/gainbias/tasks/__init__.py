"""On what: named problems with a source and known answers, and the conversions that make them."""
