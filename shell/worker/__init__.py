"""What runs on every node of an allocation, also inside serving containers: standard library and msgspec only."""
