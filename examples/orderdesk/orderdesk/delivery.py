"""What delivery costs, by weight."""

# Grams up to which a rate applies, and the rate in cents.
RATES = ((1000, 390), (5000, 590), (10000, 890), (31500, 1490))
FREE_FROM = 15000  # cents of goods


class TooHeavy(ValueError):
    """One parcel cannot carry this order."""


def order_weight(lines):
    return sum(article.weight * pieces for article, pieces in lines)


def delivery_price(lines, goods):
    """Cents for delivering these lines when the goods cost that much."""
    if not lines:
        return 0
    if goods >= FREE_FROM:
        return 0
    weight = order_weight(lines)
    for limit, price in RATES:
        if weight <= limit:
            return price
    raise TooHeavy(f"{weight} g need a pallet")
