"""Report what the actions of a table did: a timeline with metrics, and the reporters that publish them."""
