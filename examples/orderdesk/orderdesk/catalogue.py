"""What is sold: articles with a price, a weight and a group."""


class UnknownArticle(KeyError):
    """No article has this number."""


class Article:
    def __init__(self, number, title, price, weight, group="general"):
        self.number = number
        self.title = title
        self.price = price  # cents for one piece
        self.weight = weight  # grams for one piece
        self.group = group

    def __repr__(self):
        return f"Article({self.number!r}, {self.title!r})"


class Catalogue:
    def __init__(self, articles=()):
        self._articles = {}
        for article in articles:
            self.add(article)

    def add(self, article):
        self._articles[article.number] = article

    def find(self, number):
        try:
            return self._articles[number]
        except KeyError:
            raise UnknownArticle(number) from None

    def in_group(self, group):
        """Articles of one group in the order of their titles."""
        found = [article for article in self._articles.values() if article.group == group]
        return sorted(found, key=lambda article: article.title)

    def __len__(self):
        return len(self._articles)
