"""What the families of statements and control flow make of fragments inside ``f(a, b, xs, d)``.

Each row: family, fragment before, fragment after.
"""

from __future__ import annotations

STATEMENT_ROWS: list[tuple[str, str, str]] = [
    (
        "previous",
        "t = a\n    for x in xs:\n        d.append(x - t)",
        "t = a\n    for x in xs:\n        d.append(x - t)\n        t = x",
    ),
    (
        "inner-state",
        "t = []\n    def g(x):\n        t.append(x)",
        "def g(x):\n        t = []\n        t.append(x)",
    ),
    (
        "worklist",
        "while xs:\n        x = xs.pop()\n        for y in b[x]:\n            if y not in d:\n                d.add(y)",
        "while xs:\n        x = xs.pop()\n        for y in b[x]:\n            if y not in d:\n"
        "                d.add(y)\n                xs.append(y)",
    ),
    (
        "worklist",
        "if d and d[0] != a:\n        raise KeyError(a)\n    b[a] = 1",
        "if d and d[0] != a:\n        raise KeyError(a)\n    d.pop(0)\n    b[a] = 1",
    ),
    (
        "window",
        "t = 0\n    for i, x in enumerate(xs):\n        t += x\n        if i >= a - 1:\n            d.append(t)",
        "t = 0\n    for i, x in enumerate(xs):\n        t += x\n        if i >= a:\n"
        "            t -= xs[i - a]\n        if i >= a - 1:\n            d.append(t)",
    ),
    (
        "tracking",
        "for x in xs:\n        return a(x)\n    return True",
        "for x in xs:\n        if not a(x):\n            return False\n    return True",
    ),
    ("limit", "if a < b:\n        xs[a] += 1", "a = min(a, b - 1)\n    if a < b:\n        xs[a] += 1"),
    (
        "special-case",
        "return xs[1] - xs[0]",
        "if len(xs) < 2:\n        return 0\n    return xs[1] - xs[0]",
    ),
    (
        "special-case",
        "seen = set()\n    for x in xs:\n        seen.add(x)\n        b += x",
        "seen = set()\n    for x in xs:\n        if x in seen:\n            continue\n        seen.add(x)\n        b += x",
    ),
    ("base-case", "return f(a - 1, b, xs, d)", "if a <= 0:\n        return 0\n    return f(a - 1, b, xs, d)"),
    (
        "base-case",
        "return a * f(a - 1, b, xs, d)",
        "if a == 0:\n        return 1\n    return a * f(a - 1, b, xs, d)",
    ),
    (
        "base-case",
        "return 1 + max(f(a.l, b, xs, d), 2)",
        "if a is None:\n        return 0\n    return 1 + max(f(a.l, b, xs, d), 2)",
    ),
    ("clause", "while xs[a].b:\n        a += 1", "while a < len(xs) and xs[a].b:\n        a += 1"),
    ("clause", "return [x.b for x in xs]", "return [x.b for x in xs if x.b]"),
    ("clause", "d[a] = b", "if a not in d:\n        d[a] = b"),
    ("clause", "if a:\n        b += 1\n    return b", "b += 1\n    return b"),
    (
        "relocation",
        "t = 0\n    for x in xs:\n        t += x",
        "for x in xs:\n        t = 0\n        t += x",
    ),
    (
        "relocation",
        "for x in xs:\n        t = 0\n        t += x",
        "t = 0\n    for x in xs:\n        t += x",
    ),
    (
        "relocation",
        "a -= b\n    d += b\n    if a < b:\n        raise ValueError(a)",
        "if a < b:\n        raise ValueError(a)\n    a -= b\n    d += b",
    ),
    (
        "relocation",
        "for x in xs:\n        if x:\n            return True\n        else:\n            return False",
        "for x in xs:\n        if x:\n            return True\n    return False",
    ),
    (
        "relocation",
        "for x in xs:\n        for y in x:\n            a += y\n            return a",
        "for x in xs:\n        for y in x:\n            a += y\n    return a",
    ),
    ("loop-update", "while a < b:\n        d += 1", "while a < b:\n        d += 1\n        a += 1"),
    ("loop-update", "while a:\n        d += a % 2", "while a:\n        d += a % 2\n        a //= 2"),
    (
        "loop-update",
        "s = set()\n    for x in xs:\n        if x not in s:\n            a += x",
        "s = set()\n    for x in xs:\n        if x not in s:\n            a += x\n            s.add(x)",
    ),
    (
        "loop-update",
        "c = []\n    for x in xs:\n        c.append(x)\n        if x:\n            a.append(c)",
        "c = []\n    for x in xs:\n        c.append(x)\n        if x:\n            a.append(c)\n            c = []",
    ),
    (
        "loop-update",
        "c = []\n    for x in xs:\n        if x:\n            a.append(c)\n            c = []",
        "c = []\n    for x in xs:\n        if x:\n            a.append(c)\n            c = []\n    if c:\n        a.append(c)",
    ),
    (
        "loop-update",
        "if a in d:\n        return d[a]\n    r = a * b\n    return r",
        "if a in d:\n        return d[a]\n    r = a * b\n    d[a] = r\n    return r",
    ),
    (
        "symmetry",
        "low = high = 0\n    if a < low:\n        low = a",
        "low = high = 0\n    if a < low:\n        low = a\n    if a > high:\n        high = a",
    ),
    ("symmetry", "d[a].add(b)", "d[a].add(b)\n    d[b].add(a)"),
    (
        "copy",
        "for x in xs:\n        xs.remove(x)",
        "for x in list(xs):\n        xs.remove(x)",
    ),
    ("copy", "xs.sort()\n    return xs[0]", "xs = list(xs)\n    xs.sort()\n    return xs[0]"),
    ("copy", "r = d\n    r.update(a)", "r = dict(d)\n    r.update(a)"),
    ("copy", "return dict.fromkeys(xs, [])", "return {key: [] for key in xs}"),
    (
        "branch",
        "if a:\n        b = 1\n    b = 2",
        "if a:\n        b = 1\n    else:\n        b = 2",
    ),
    (
        "branch",
        "for x in xs:\n        if x:\n            break\n    b = 2",
        "for x in xs:\n        if x:\n            break\n    else:\n        b = 2",
    ),
    (
        "branch",
        "if a:\n        b = 1\n    else:\n        b = 2",
        "if a:\n        b = 2\n    else:\n        b = 1",
    ),
    ("branch", "if a:\n        b = 1\n    else:\n        b = 2", "if a:\n        b = 1\n    b = 2"),
    ("branch", "if a:\n        a = a[1:]", "while a:\n        a = a[1:]"),
    ("branch", "if a:\n        b = 1", "if a:\n        b = 1\n    else:\n        b = None"),
    (
        "handler",
        "try:\n        g()\n    except Exception:\n        a = 1",
        "try:\n        g()\n    except ValueError:\n        a = 1",
    ),
    (
        "handler",
        "try:\n        g()\n    except ValueError:\n        a = 1",
        "try:\n        g()\n    except ValueError:\n        a = 1\n        raise",
    ),
    ("handler", "g()\n    a.close()", "try:\n        g()\n    finally:\n        a.close()"),
    ("handler", "return ValueError(a)", "raise ValueError(a)"),
    ("handler", "raise ValueError(a)", "return None"),
    ("discarded", "a.strip()", "a = a.strip()"),
    ("discarded", "yield xs", "yield from xs"),
    (
        "tracking",
        "m = 0\n    for x in xs:\n        if x.n > m:\n            b = x\n    return b",
        "m = 0\n    for x in xs:\n        if x.n > m:\n            b = x\n            m = x.n\n    return b",
    ),
    (
        "tracking",
        "m = None\n    for x in xs:\n        if m is None:\n            m = (x, x.n)",
        "m = None\n    for x in xs:\n        if m is None or x.n < m[1]:\n            m = (x, x.n)",
    ),
    (
        "tracking",
        "m = None\n    for x in xs:\n        if m is None:\n            m, b = x.n, x",
        "m = None\n    for x in xs:\n        if m is None or x.n > m:\n            m, b = x.n, x",
    ),
    (
        "tracking",
        "m = None\n    try:\n        a()\n    except ValueError as e:\n        b()\n    return m",
        "m = None\n    try:\n        a()\n    except ValueError as e:\n        m = e\n        b()\n    return m",
    ),
    (
        "tracking",
        "for x in xs:\n        return a(x)\n    return None",
        "for x in xs:\n        found = a(x)\n        if found is not None:\n            return found\n    return None",
    ),
    (
        "complement",
        "if b in a.waiting:\n        d()\n    return a.waiting.append(d)",
        "if b in a.waiting:\n        d()\n    a.waiting.remove(b)\n    return a.waiting.append(d)",
    ),
    (
        "complement",
        "n = len(a.log)\n    try:\n        b()\n    except ValueError:\n        raise",
        "n = len(a.log)\n    try:\n        b()\n    except ValueError:\n        del a.log[n:]\n        raise",
    ),
    (
        "copy",
        "r = []\n    for x in xs:\n        yield r\n        r.clear()",
        "r = []\n    for x in xs:\n        yield r\n        r = []",
    ),
    ("jump", "if a:\n        b()\n    d()", "if a:\n        b()\n        return\n    d()"),
    ("identity", "return a is not None", "return None not in a"),
    (
        "branch",
        "if a:\n        return 1\n    elif b:\n        return 2\n    return 3",
        "if b:\n        return 2\n    elif a:\n        return 1\n    return 3",
    ),
    ("mapping", "for x in xs:\n        d[x] = b", "for x in xs:\n        d[x] = d.get(x, 0) + b"),
    ("mapping", "for x in xs:\n        d[x] = b", "for x in xs:\n        d.setdefault(x, []).append(b)"),
    (
        "guard",
        "p = a(1)\n    q = a(2)\n    return p.n + q.n",
        "p = a(1)\n    q = a(2)\n    if p is None or q is None:\n        return None\n    return p.n + q.n",
    ),
    ("recursion", "for x in xs:\n        yield x", "for x in xs:\n        yield from f(x, b, xs, d)"),
    ("recursion", "for x in xs:\n        b += 1", "for x in xs:\n        b += f(x, b, xs, d)"),
    ("mapping", "for x in xs:\n        d[x] = [b]", "for x in xs:\n        d.setdefault(x, []).append(b)"),
    ("mapping", "r = d[a] = {}", "r = d.setdefault(a, {})"),
    ("clause", "if a in b:\n        d()", "if isinstance(b, dict) and a in b:\n        d()"),
    ("clause", "if a.startswith('x'):\n        d()", "if a.startswith('x') and len(a) > 1:\n        d()"),
    (
        "guard",
        "for x in xs:\n        for y in xs:\n            d(x, y)",
        "for x in xs:\n        for y in xs:\n            if x == 0 and y == 0:\n                continue\n            d(x, y)",
    ),
    ("guard", "return a / (len(b) - 1)", "if len(b) < 2:\n        return None\n    return a / (len(b) - 1)"),
]
