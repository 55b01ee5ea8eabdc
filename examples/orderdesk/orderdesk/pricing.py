"""What a line and an order cost."""

from .breaks import discount_rate
from .money import percent_of


def line_price(article, pieces):
    """Cents for one line after its discount."""
    full = article.price * pieces
    return full - percent_of(full, discount_rate(article, pieces))


def goods_total(lines):
    """Cents for all lines, each an (article, pieces) pair."""
    return sum(line_price(article, pieces) for article, pieces in lines)
