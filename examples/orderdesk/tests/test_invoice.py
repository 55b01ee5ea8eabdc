import unittest

from orderdesk.invoice import Invoice

from .support import order_of


class InvoiceTest(unittest.TestCase):
    def test_a_single_jar_pays_full_price_and_delivery(self):
        invoice = Invoice(order_of(("H1", 1)))
        self.assertEqual(invoice.goods, 650)
        self.assertEqual(invoice.delivery, 390)
        self.assertEqual(invoice.total, 1248)

    def test_a_full_carton_gets_the_first_price_break(self):
        invoice = Invoice(order_of(("H1", 12)))
        self.assertEqual(invoice.goods, 7410)

    def test_books_have_a_fixed_price(self):
        self.assertEqual(Invoice(order_of(("B3", 20))).goods, 49800)

    def test_delivery_is_free_for_large_orders(self):
        self.assertEqual(Invoice(order_of(("K4", 3))).delivery, 0)

    def test_the_text_lists_every_line(self):
        text = Invoice(order_of(("H1", 2), ("T2", 1))).text()
        self.assertIn("Acacia honey", text)
        self.assertIn("13.00 EUR", text)
        self.assertIn("Invoice for Mrs. Vogel", text)
