from orderdesk.catalogue import Article, Catalogue
from orderdesk.orders import Order
from orderdesk.stock import Stock


def small_shop():
    """A catalogue of four articles with plenty of stock."""
    catalogue = Catalogue(
        [
            Article("H1", "Acacia honey", 650, 500, "food"),
            Article("T2", "Green tea", 420, 100, "food"),
            Article("B3", "Beekeeping for beginners", 2490, 800, "books"),
            Article("K4", "Kettle", 5200, 1900, "household"),
        ]
    )
    stock = Stock()
    for number in ("H1", "T2", "B3", "K4"):
        stock.receive(number, 500)
    return catalogue, stock


def order_of(*lines):
    catalogue, stock = small_shop()
    order = Order("Mrs. Vogel", catalogue, stock)
    for number, pieces in lines:
        order.add(number, pieces)
    return order
