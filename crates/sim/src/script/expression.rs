//! Values that a script computes from what its transaction has read.

/// An expression over whole numbers; comparisons are 1 or 0.
#[derive(Clone, Debug)]
pub enum Expression {
    /// A number.
    Number(i64),
    /// A variable that an earlier statement has set.
    Variable(usize),
    /// The key of the current row.
    Key,
    /// The value of the current row.
    Value,
    /// Two expressions and their operator.
    Binary(Box<Expression>, Operator, Box<Expression>),
}

/// An operator between two expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the operator of its name")]
pub enum Operator {
    Plus,
    Minus,
    Times,
    Modulo,
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    And,
}

/// The values that expressions refer to.
#[derive(Debug)]
pub struct Scope {
    variables: Vec<i64>,
    row: (u32, i64),
}

impl Scope {
    /// Makes a scope with this many variables, all 0.
    pub fn new(variables: usize) -> Scope {
        Scope { variables: vec![0; variables], row: (0, 0) }
    }

    /// Sets a variable.
    pub fn set(&mut self, variable: usize, value: i64) {
        self.variables[variable] = value;
    }

    /// Sets the current row.
    pub fn row(&mut self, row: (u32, i64)) {
        self.row = row;
    }
}

impl Expression {
    /// Returns its value. Overflow wraps, and the remainder of a division by 0 is 0.
    pub fn value(&self, scope: &Scope) -> i64 {
        let (left, operator, right) = match self {
            Expression::Number(number) => return *number,
            Expression::Variable(variable) => return scope.variables[*variable],
            Expression::Key => return i64::from(scope.row.0),
            Expression::Value => return scope.row.1,
            Expression::Binary(left, operator, right) => (left.value(scope), operator, right.value(scope)),
        };
        match operator {
            Operator::Plus => left.wrapping_add(right),
            Operator::Minus => left.wrapping_sub(right),
            Operator::Times => left.wrapping_mul(right),
            Operator::Modulo => left.checked_rem(right).unwrap_or(0),
            Operator::Equal => i64::from(left == right),
            Operator::Unequal => i64::from(left != right),
            Operator::Less => i64::from(left < right),
            Operator::LessOrEqual => i64::from(left <= right),
            Operator::Greater => i64::from(left > right),
            Operator::GreaterOrEqual => i64::from(left >= right),
            Operator::And => i64::from(left != 0 && right != 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::script::parse;

    /// Proves that operators have the precedence of arithmetic, bind from the left, and cannot fail.
    #[test]
    fn expressions_have_their_values() {
        let max = i64::MAX;
        for (text, expected) in [
            ("1 + 2 * 3 - 4", 3),
            ("10 - 4 - 3", 3),
            ("(1 + 2) * -3", -9),
            ("7 % 4 * 2", 6),
            ("7 % 0", 0),
            ("1 + 1 == 2 and 3 < 4", 1),
            ("2 and 0", 0),
            ("3 <= 3 == 1", 1),
            ("3 >= 4", 0),
            ("3 > 2", 1),
            ("3 != 3", 0),
            (&format!("{max} + 1"), i64::MIN),
            (&format!("{max} * 2"), -2),
        ] {
            let script = parse("expression", &format!("row t[1] = {text}\ntransaction a\n commit"));
            let script = script.unwrap_or_else(|error| panic!("{error}: {text}"));
            assert_eq!(script.rows[&(0, 1)], expected, "{text}");
        }
    }
}
