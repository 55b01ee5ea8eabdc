"""Orders: lines of articles, reserved in stock while the order is open."""

from .stock import OutOfStock


class Order:
    def __init__(self, customer, catalogue, stock):
        self.customer = customer
        self._catalogue = catalogue
        self._stock = stock
        self._pieces = {}

    def add(self, number, pieces=1):
        article = self._catalogue.find(number)
        self._stock.reserve(article.number, pieces)
        self._pieces[article.number] = self._pieces.get(article.number, 0) + pieces

    def remove(self, number):
        pieces = self._pieces.pop(number, 0)
        self._stock.release(number, pieces)

    def lines(self):
        """(article, pieces) pairs in the order in which they were added."""
        return [(self._catalogue.find(number), pieces) for number, pieces in self._pieces.items()]

    def can_add(self, number, pieces):
        try:
            self._stock.reserve(number, pieces)
        except OutOfStock:
            return False
        self._stock.release(number, pieces)
        return True
