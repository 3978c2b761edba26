"""A package, so that children find these tests and not those that a library left in site-packages."""
