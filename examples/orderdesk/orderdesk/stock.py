"""How many pieces lie in the warehouse, and how many are promised."""


class OutOfStock(Exception):
    """Fewer pieces are free than were asked for."""


class Stock:
    def __init__(self):
        self._pieces = {}
        self._reserved = {}

    def receive(self, number, pieces):
        if pieces <= 0:
            raise ValueError("a delivery has at least one piece")
        self._pieces[number] = self._pieces.get(number, 0) + pieces

    def free(self, number):
        return self._pieces.get(number, 0) - self._reserved.get(number, 0)

    def reserve(self, number, pieces):
        if pieces > self.free(number):
            raise OutOfStock(f"{number}: {self.free(number)} free, {pieces} wanted")
        self._reserved[number] = self._reserved.get(number, 0) + pieces

    def release(self, number, pieces):
        self._reserved[number] = max(0, self._reserved.get(number, 0) - pieces)

    def ship(self, number, pieces):
        """Takes reserved pieces out of the warehouse."""
        self.release(number, pieces)
        self._pieces[number] -= pieces
