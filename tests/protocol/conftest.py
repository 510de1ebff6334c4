"""Nothing but its place: with it, tests in the folders below find `flight_door` too."""
