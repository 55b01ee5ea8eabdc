import unittest

from orderdesk.breaks import next_break
from orderdesk.catalogue import Article
from orderdesk.pricing import goods_total, line_price

HONEY = Article("H1", "Acacia honey", 650, 500, "food")
BOOK = Article("B3", "Beekeeping for beginners", 2490, 800, "books")


class PricingTest(unittest.TestCase):
    def test_few_pieces_have_no_discount(self):
        self.assertEqual(line_price(HONEY, 11), 7150)

    def test_more_than_a_carton_gets_five_per_cent(self):
        self.assertEqual(line_price(HONEY, 20), 12350)

    def test_large_orders_get_the_better_rates(self):
        self.assertEqual(line_price(HONEY, 100), 59800)
        self.assertEqual(line_price(HONEY, 200), 114400)

    def test_lines_are_priced_one_by_one(self):
        self.assertEqual(goods_total([(HONEY, 11), (BOOK, 1)]), 9640)

    def test_the_next_break_is_named(self):
        self.assertEqual(next_break(HONEY, 10), 2)
        self.assertIsNone(next_break(HONEY, 144))
        self.assertIsNone(next_break(BOOK, 1))
