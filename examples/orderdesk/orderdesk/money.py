"""Amounts in cents, so that nothing is lost to binary fractions."""


def percent_of(cents, percent):
    """The given percentage of an amount, rounded half up to whole cents."""
    return (cents * percent + 50) // 100


def format_cents(cents, currency="EUR"):
    """``1234`` -> ``"12.34 EUR"``; negative amounts keep their sign in front."""
    sign = "-" if cents < 0 else ""
    euros, rest = divmod(abs(cents), 100)
    return f"{sign}{euros}.{rest:02d} {currency}"
