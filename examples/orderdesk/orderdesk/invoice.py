"""Invoices: what the customer pays, and the text that says so."""

from .delivery import delivery_price
from .money import format_cents, percent_of
from .pricing import goods_total, line_price

TAX_PERCENT = 20


class Invoice:
    def __init__(self, order):
        self._lines = order.lines()
        self.customer = order.customer

    @property
    def goods(self):
        return goods_total(self._lines)

    @property
    def delivery(self):
        return delivery_price(self._lines, self.goods)

    @property
    def tax(self):
        return percent_of(self.goods + self.delivery, TAX_PERCENT)

    @property
    def total(self):
        return self.goods + self.delivery + self.tax

    def text(self):
        rows = [f"Invoice for {self.customer}"]
        for article, pieces in self._lines:
            rows.append(f"{pieces:>5} x {article.title:<24} {format_cents(line_price(article, pieces)):>14}")
        rows.append(f"{'Delivery':<32} {format_cents(self.delivery):>14}")
        rows.append(f"{'Tax':<32} {format_cents(self.tax):>14}")
        rows.append(f"{'Total':<32} {format_cents(self.total):>14}")
        return "\n".join(rows)
