import unittest

from orderdesk.catalogue import UnknownArticle
from orderdesk.delivery import TooHeavy, delivery_price
from orderdesk.invoice import Invoice
from orderdesk.stock import OutOfStock, Stock

from .support import order_of, small_shop


class OrdersTest(unittest.TestCase):
    def test_lines_keep_their_order(self):
        order = order_of(("T2", 1), ("H1", 2), ("T2", 3))
        self.assertEqual([(a.number, n) for a, n in order.lines()], [("T2", 4), ("H1", 2)])

    def test_unknown_articles_are_refused(self):
        with self.assertRaises(UnknownArticle):
            order_of(("X9", 1))

    def test_more_than_the_stock_cannot_be_ordered(self):
        with self.assertRaises(OutOfStock):
            order_of(("K4", 501))

    def test_removing_a_line_frees_the_stock(self):
        order = order_of(("K4", 400))
        self.assertFalse(order.can_add("K4", 200))
        order.remove("K4")
        self.assertTrue(order.can_add("K4", 200))

    def test_an_empty_order_costs_nothing(self):
        self.assertEqual(Invoice(order_of()).total, 0)


class StockTest(unittest.TestCase):
    def test_shipping_takes_reserved_pieces(self):
        stock = Stock()
        stock.receive("H1", 10)
        stock.reserve("H1", 4)
        stock.ship("H1", 4)
        self.assertEqual(stock.free("H1"), 6)

    def test_empty_deliveries_are_refused(self):
        with self.assertRaises(ValueError):
            Stock().receive("H1", 0)


class DeliveryTest(unittest.TestCase):
    def test_heavier_parcels_cost_more(self):
        catalogue, _ = small_shop()
        kettle = catalogue.find("K4")
        self.assertEqual(delivery_price([(kettle, 1)], 5200), 590)
        self.assertEqual(delivery_price([(kettle, 2)], 10400), 590)

    def test_a_pallet_is_not_a_parcel(self):
        catalogue, _ = small_shop()
        with self.assertRaises(TooHeavy):
            delivery_price([(catalogue.find("H1"), 64)], 0)

    def test_groups_are_sorted_by_title(self):
        catalogue, _ = small_shop()
        self.assertEqual([a.number for a in catalogue.in_group("food")], ["H1", "T2"])
