"""Shapes and words used throughout the package.

| letter | axis                                    |
|--------|-----------------------------------------|
| B      | series (or intervals) of a batch        |
| L      | observations of a series                |
| D      | channels                                |
| N      | coefficients of a channel               |
| K      | steps inside one interval               |
| P      | pieces or knots of paths, of all rows   |
| Q      | query times                             |

Axis order is (..., time, channel); coefficients are (..., channel, coefficient). The state of the
dynamics is (B, D, 1 + N): the signal h0 first, then the hidden copy of the coefficients.
"""
