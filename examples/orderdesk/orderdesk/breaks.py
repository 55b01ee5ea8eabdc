"""Price breaks: the more pieces, the higher the rate of the discount."""

# Pieces from which a rate applies, and the rate in per cent; highest first.
PRICE_BREAKS = ((144, 12), (48, 8), (12, 5))

# Groups whose prices are bound by law or contract.
WITHOUT_DISCOUNT = frozenset({"books", "tobacco"})


def discount_rate(article, pieces):
    """Per cent off the price of one line of an order."""
    if article.group in WITHOUT_DISCOUNT:
        return 0
    for threshold, rate in PRICE_BREAKS:
        if pieces > threshold:
            return rate
    return 0


def next_break(article, pieces):
    """Pieces missing to the next better rate, or None at the best one."""
    if article.group in WITHOUT_DISCOUNT:
        return None
    missing = [threshold - pieces for threshold, _ in PRICE_BREAKS if threshold > pieces]
    return min(missing) if missing else None
